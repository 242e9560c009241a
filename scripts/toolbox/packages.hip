hipcc
libamdhip64-dev
libomp-21-dev
libkokkos-dev
libfmt-dev
nlohmann-json3-dev
python3
binutils
