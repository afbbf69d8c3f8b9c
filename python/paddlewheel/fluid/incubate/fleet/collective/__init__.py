"""The fleet of trainers alone."""

from ..._not_yet_fleet import COLLECTIVE, NotYetFleet, not_yet_class

CollectiveOptimizer = not_yet_class("CollectiveOptimizer", COLLECTIVE)
DistributedStrategy = not_yet_class("DistributedStrategy", COLLECTIVE)
TrainStatus = not_yet_class("TrainStatus", COLLECTIVE)
fleet = NotYetFleet("fleet", COLLECTIVE)
