"""The fleet of trainers alone."""

from ..._not_yet_fleet import NotYetFleet, not_yet_class

CollectiveOptimizer = not_yet_class("CollectiveOptimizer")
DistributedStrategy = not_yet_class("DistributedStrategy")
TrainStatus = not_yet_class("TrainStatus")
fleet = NotYetFleet("fleet")
