# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# Copyright (c) the Krama authors
"""How what has no uniform interface is instantiated: kernels, and programs.

Layers, losses and optimizers need nothing here, their interface is known. A line "T:" is repeated for
every element type, "A:" for every type of accumulators. `E`, `M`, `D` are the back end's execution
space, memory space and device; `any` converts to every argument.
"""

KERNELS = {
    "kernels/adaptive_pool.hpp": [
        "T: kernels::adaptive_avg_pool<E, T, M>(any, any, any, any);",
        "T: kernels::adaptive_avg_pool_grad<E, T, M>(any, any, any, any);",
    ],
    "kernels/attention.hpp": [
        "T: kernels::attention_table<E, accum_t<T>>(any, any, any, any);",
        "T: kernels::attention_forward<E, T>(any, any);",
        "T: kernels::attention_backward<E, T>(any, any);",
    ],
    "kernels/channel_norm.hpp": [
        "T: kernels::channel_moments<E, T>(any, any, any, any, any, any);",
        "T: kernels::channel_sums<E, T>(any, any, any, any, any, any, any, any, any);",
        "T: kernels::channel_affine<E, T>(any, any, any, any, any, any, any, any, any);",
        "T: kernels::channel_backward<E, T>(any, any, any, any, any, any, any, any, any);",
        "A: kernels::channel_param_grads<A, E>(any, any, any, any, any, any);",
    ],
    "kernels/column_sums.hpp": ["T: kernels::column_sums<E, T, M>(any, any, any, any, any);"],
    "kernels/conv.hpp": [
        "T: kernels::conv_forward<E, T, M>(any, any, any, any, any, any, any);",
        "T: kernels::conv_input_grad<E, T, M>(any, any, any, any, any, any, any);",
        "T: kernels::conv_weight_grad<E, T, M>(any, any, any, any, any, any);",
    ],
    "kernels/elementwise.hpp": ["T: kernels::add<E, T, M>(any, any, any, any);"],
    "kernels/difference.hpp": ["T: kernels::scaled_difference<E, T, M>(any, any, any, any, any);"],
    "kernels/embedding.hpp": [
        "T: kernels::embed<E, T, M>(any, any, any, any, any);",
        "T: kernels::embed_grad<E, T, M>(any, any, any, any, any, any, any);",
    ],
    "kernels/for_each_2d.hpp": ["T: kernels::for_each_2d<E, Plain2d<T>>(any, any, any, any, any);"],
    "kernels/gemm.hpp": [
        "T: kernels::gemm<E, T, T, T, M>(any, any, any, any, any, any, any, any);",
        "T: kernels::gemm<E, T, T, accum_t<T>, M>(any, any, any, any, any, any, any, any);",
        "T: kernels::batched_gemm_strided<E, T, T, T>(any, any, any, any, any, any, any, any, any, any,"
        " any, any, any, any, any, any, any, any);",
        "T: kernels::linear_forward<E, T, T, T, T, M>(any, any, any, any, any);",
        "T: kernels::bias_grad<E, T, accum_t<T>, M>(any, any, any);",
    ],
    "kernels/norm.hpp": [
        "T: kernels::norm_forward<true, E, T, M>(any, any, any, any, any, any, any, any, any);",
        "T: kernels::norm_forward<false, E, T, M>(any, any, any, any, any, any, any, any, any);",
        "T: kernels::norm_backward<true, E, T, M>(any, any, any, any, any, any, any, any, any, any, any);",
        "T: kernels::norm_backward<false, E, T, M>(any, any, any, any, any, any, any, any, any, any, any);",
    ],
    "kernels/pool.hpp": [
        "T: kernels::max_pool<E, T, M>(any, any, any, any, any);",
        "T: kernels::max_pool_grad<E, T, M>(any, any, any, any, any);",
        "T: kernels::avg_pool<E, T, M>(any, any, any, any, any);",
        "T: kernels::avg_pool_grad<E, T, M>(any, any, any, any, any);",
    ],
    "kernels/reduce.hpp": [
        "T: kernels::sum<E, T, M>(any, any);",
        "T: kernels::squared_norm<E, T, M>(any, any);",
        "T: kernels::count_non_finite<E, T, M>(any, any);",
    ],
    "kernels/rope.hpp": ["A: kernels::rope_table<E, A>(any, any, any, any, any);"],
    "kernels/row_reduce.hpp": ["A: kokkos_ext::launch<E, Rows<A>>(any, any, any, any);"],
    "kernels/scale.hpp": ["T: kernels::scale<E, T, M>(any, any, any);"],
    "kernels/vector_math.hpp": ["A: kokkos_ext::launch<E, Math<A>>(any, any, any, any);"],
    "kernels/move_window.hpp": [
        "T: kernels::move_window<E, T>(any, any, any, any, any, any, any, any, any, any, any);",
    ],
    "tensor/copy.hpp": [
        "T: fill<E, T, 1, M>(any, any, any);",
        "T: cast<E, T, accum_t<T>, 1, M>(any, any, any);",
        "T: cast<E, accum_t<T>, T, 1, M>(any, any, any);",
    ],
}

# Headers of the checked folders that hold no device code of their own.
NOTHING_FOR_DEVICES = {
    "kernels/window.hpp": "sizes; convolutions and pools use them",
    "nn/losses/loss.hpp": "the frame of losses; every loss instantiates it",
    "nn/losses/per_output.hpp": "the frame of losses with a target an output; they instantiate it",
    "optim/clip.hpp": "host arithmetic",
    "optim/loss_scale.hpp": "host arithmetic",
    "optim/optimizer.hpp": "the frame of optimizers; every optimizer instantiates it",
    "optim/schedule.hpp": "host arithmetic",
}

# Kernels that only hosts run.
HOST_ONLY = {
    "BlockedLoop": "blocks for vector units; devices take the functor itself",
    "RowPieces": "pieces of rows for vector units; devices take RowElements",
    "PieceSum": "devices take LaneSum",
    "PatchRows": "devices take PatchElements",
    "NormBackwardBlock": "devices take NormBackwardRows and NormBackwardColumns",
    "UpdateChunk": "devices take UpdateElement",
    "DropoutBlock": "devices take the lambda of Dropout::apply",
    "AddBias": "follows the host's vendor libraries",
}

# Kernels that are compiled only where a device's vendor library is (see LIBRARIES).
LIBRARY_ONLY = {
    "SpreadBias": "for libraries without a bias in their epilogue",
}

# Doors to vendors' libraries: the header to instantiate (by "lines", or once more as in KERNELS), and for
# each back end the headers that must be there, the macro that opens the door, and the functions that the
# object must call.
LIBRARIES = {
    "comm/nccl/communicator.hpp": {
        "lines": [
            "A: World w = any; NcclComm c(w, any, any); c.allreduce<E, A, M>(any, any, any);",
            "T: World w = any; NcclComm c(w, any, any); c.broadcast<E, T, M>(any, any, 0, any);",
            "T: World w = any; NcclComm c(w, any, any); c.allgather<E, T, M>(any, any, any, any);",
            "A: World w = any; NcclComm c(w, any, any); c.allreduce<E, std::int64_t, M>(any, any, any);",
            "template class krama::Executor<D, float, nn::CrossEntropy, optim::AdamW, NcclComm>;",
        ],
        "cuda": (("nccl.h",), "KRAMA_HAS_NCCL",
                 ("ncclReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather", "ncclCommInitRankConfig",
                  "ncclCommAbort", "ncclCommGetAsyncError", "ncclGetLastError")),
        "hip": (("rccl/rccl.h",), "KRAMA_HAS_RCCL",
                ("ncclReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather", "ncclCommInitRank",
                 "ncclCommAbort", "ncclCommGetAsyncError", "ncclGetLastError")),
    },
    "kernels/gemm.hpp": {
        "cuda": (("cublas_v2.h", "cublasLt.h"), "KRAMA_HAS_CUBLAS",
                 ("cublasGemmEx", "cublasGemmStridedBatchedEx", "cublasLtMatmul", "cublasDestroy_v2")),
        "hip": (("hipblas/hipblas.h",), "KRAMA_HAS_HIPBLAS",
                ("hipblasGemmEx_v2", "hipblasGemmStridedBatchedEx_v2", "hipblasDestroy")),
    },
}

# Whole programs: an executor for each element type, losses and optimizers in turn.
PROGRAMS = {
    "program/executor.hpp": [
        "template class krama::Executor<D, float, nn::CrossEntropy, optim::AdamW, SelfComm>;",
        "template class krama::Executor<D, double, nn::MeanSquaredError, optim::Sgd, SelfComm>;",
        "template class krama::Executor<D, bf16, nn::CrossEntropy, optim::AdamW, SelfComm>;",
        "template class krama::Executor<D, f16, nn::CrossEntropy, optim::Adam, SelfComm>;",
    ],
    "models/gpt.hpp": ["template nn::Model<D, bf16> models::gpt<D, bf16>(const models::GptConfig&);"],
    "models/llama.hpp": ["template nn::Model<D, f16> models::llama<D, f16>(const models::LlamaConfig&);"],
    "models/mlp.hpp": ["template nn::Model<D, float> models::mlp<D, float>(const models::MlpConfig&);"],
}
PROGRAM_KERNELS = {
    "program/executor.hpp": ["UpdateElement", "LossBlock", "LaneSum", "fill"],
    "models/gpt.hpp": ["PortableGemm", "NormForward", "AttentionForwardTeam", "Gelu::forward"],
    "models/llama.hpp": ["PortableGemm", "NormForward", "AttentionForwardTeam", "SwiGlu::forward"],
    "models/mlp.hpp": ["PortableGemm", "BiasGrad", "Relu::forward"],
}

# Layers without kernels of their own: those of kernels/ that must come with them.
LAYER_KERNELS = {
    "AdaptiveAvgPool2d": ["AvgPoolForward", "AvgPoolBackward"],
    "AvgPool1d": ["AvgPoolForward", "AvgPoolBackward"],
    "AvgPool2d": ["AvgPoolForward", "AvgPoolBackward"],
    "BatchNorm": ["ChannelMoments", "JoinChannelMoments", "ChannelSums", "JoinChannelSums",
                  "ChannelAffine", "ChannelBackward", "ChannelParamGrads"],
    "CausalSelfAttention": ["AttentionTurn", "AttentionForwardTeam", "AttentionQueryTeam",
                            "AttentionKeyTeam", "AttentionTurnBack"],
    "Conv1d": ["PatchElements", "PortableGemm", "CollectPatches", "DepthwiseForward", "DepthwiseInput",
               "DepthwiseWeights", "BlockColumnSums", "JoinColumnSums"],
    "Conv2d": ["PatchElements", "PortableGemm", "CollectPatches", "DepthwiseForward", "DepthwiseInput",
               "DepthwiseWeights", "BlockColumnSums", "JoinColumnSums"],
    "ConvTranspose2d": ["PatchElements", "PortableGemm", "CollectPatches", "DepthwiseForward", "DepthwiseInput",
                        "DepthwiseWeights", "BlockColumnSums", "JoinColumnSums"],
    "Embedding": ["Embed", "EmbedLinks", "EmbedGradLinked", "PositionGrad"],
    "GroupNorm": ["ChannelMoments", "JoinChannelMoments", "ChannelSums", "JoinChannelSums",
                  "ChannelAffine", "ChannelBackward", "ChannelParamGrads"],
    "LayerNorm": ["NormForward", "NormBackwardRows", "NormBackwardColumns"],
    "Linear": ["PortableGemm", "BiasGrad"],
    "MaxPool1d": ["MaxPoolForward", "MaxPoolBackward"],
    "MaxPool2d": ["MaxPoolForward", "MaxPoolBackward"],
    "RmsNorm": ["NormForward", "NormBackwardRows", "NormBackwardColumns"],
}
