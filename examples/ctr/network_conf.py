"""CTR-DNN: 26 slots of ids that share one table, 13 numbers, three hidden layers."""

import paddle.fluid as fluid

HIDDEN = (400, 400, 400)


def ctr_dnn_model_dataset(
    dense_input, sparse_inputs, label, embedding_size, sparse_feature_dim, is_sparse=True
):
    """Adds the model; returns the loss, summed over the batch, the AUC so far, and of late."""
    table = fluid.ParamAttr(
        name="SparseFeatFactors", initializer=fluid.initializer.Uniform()
    )
    embeddings = [
        fluid.layers.embedding(
            input=ids,
            is_sparse=bool(is_sparse),
            is_distributed=False,
            size=[sparse_feature_dim, embedding_size],
            param_attr=table,
        )
        for ids in sparse_inputs
    ]
    hidden = fluid.layers.concat(embeddings + [dense_input], axis=1)
    for size in HIDDEN:
        hidden = fluid.layers.fc(input=hidden, size=size, act="relu", param_attr=small(hidden))
    predict = fluid.layers.fc(input=hidden, size=2, act="softmax", param_attr=small(hidden))
    cost = fluid.layers.cross_entropy(input=predict, label=label)
    avg_cost = fluid.layers.reduce_sum(cost)
    fluid.layers.accuracy(input=predict, label=label)
    auc_var, batch_auc_var, _ = fluid.layers.auc(
        input=predict, label=label, num_thresholds=2**12, slide_steps=20
    )
    return avg_cost, auc_var, batch_auc_var


def small(inputs):
    """Weights that neither blow up nor drown what comes in."""
    scale = inputs.shape[1] ** -0.5
    return fluid.ParamAttr(initializer=fluid.initializer.Normal(scale=scale))
