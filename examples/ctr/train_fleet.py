"""Trains a click-through model with Fleet: async, worker 0 saves.

    paddlewheel launch_ps --worker_num 2 --server_num 2 train_fleet.py --test 1
"""

import logging
import time

import paddle.fluid as fluid
import paddle.fluid.incubate.fleet.base.role_maker as role_maker
from ctr import CTR, get_dataset, get_params
from paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler import fleet
from paddle.fluid.transpiler.distribute_transpiler import DistributeTranspilerConfig

logging.basicConfig(format="%(asctime)s - %(levelname)s - %(message)s")
logger = logging.getLogger("fluid")
logger.setLevel(logging.INFO)


def train(params):
    # 根据环境变量确定当前机器/进程在分布式训练中扮演的角色
    # 使用 fleet api的 init()方法初始化这个节点
    role = role_maker.PaddleCloudRoleMaker()
    fleet.init(role) #必不可少的步骤，初始化节点！, 这个初始化放置的位置有啥要求吗?

    #----------单机代码部分
    ctr_model = CTR()
    inputs = ctr_model.input_data(params)
    avg_cost, auc_var, batch_auc_var = ctr_model.net(inputs,params)
    optimizer = fluid.optimizer.Adam(params.learning_rate)
    #----------

    # 指定分布式的运行模式，通过 DistributeTranspilerConfig进行配置
    # 如下，设置分布式运行模式为异步(async)，同时设置参数需要切分，以分配到不同的节点
    strategy = DistributeTranspilerConfig()
    strategy.sync_mode = False
    strategy.runtime_split_send_recv = True
    # 配置分布式的optimizer，传入我们指定的strategy，构建program
    optimizer = fleet.distributed_optimizer(optimizer,strategy)
    optimizer.minimize(avg_cost)

    # 根据节点角色，分别运行不同的逻辑
    if fleet.is_server():
        # 初始化参数服务器节点, 如果想增量训练, 就 fleet.init_server(model_path)
        fleet.init_server()
        # 运行参数服务器节点
        fleet.run_server()
    elif fleet.is_worker():
        # 必不可少的步骤，初始化工作节点！
        # 这边不同的是, 无论时初始化图, 还是执行图, 执行的program都是 fleet. 出来的.
        fleet.init_worker()
        exe = fluid.Executor(fluid.CPUPlace()) # 这个 executor 还是和单机一样哦

        # 初始化含有分布式流程的fleet.startup_program
        exe.run(fleet.startup_program)

        # 引入数据读取dataset
        dataset = get_dataset(inputs,params)
        train_result = {}

        for epoch in range(params.epochs):
            start_time = time.time()
            # 训练节点运行的是经过分布式配置的fleet.mian_program
            exe.train_from_dataset(program=fleet.main_program,
                                dataset=dataset, fetch_list=[auc_var],
                                fetch_info=["Epoch {} auc ".format(epoch)],
                                print_period=10, debug=False)
            end_time = time.time()
            logger.info("epoch %d finished, use time=%d\n" % ((epoch), end_time - start_time))
            train_result[epoch] = end_time - start_time

            # 默认使用0号节点保存模型, 为啥是 0 号节点保存模型 而不是 由 pserver 保存模型?
            if params.test and fleet.is_first_worker():
                model_path = (str(params.model_path) + "/"+"epoch_" + str(epoch))
                fluid.io.save_persistables(executor=exe, dirname=model_path)

        # 训练结束，调用stop_worker()通知pserver
        fleet.stop_worker()
        logger.info("Distribute Train Success!")
        return train_result


if __name__ == "__main__":
    train(get_params())
