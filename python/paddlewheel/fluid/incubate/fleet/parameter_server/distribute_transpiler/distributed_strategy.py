"""How trainers and servers keep step."""

from ...._not_yet_fleet import not_yet_class

DistributedStrategy = not_yet_class("DistributedStrategy")
SyncStrategy = not_yet_class("SyncStrategy")
AsyncStrategy = not_yet_class("AsyncStrategy")
HalfAsyncStrategy = not_yet_class("HalfAsyncStrategy")
GeoStrategy = not_yet_class("GeoStrategy")
TrainerRuntimeConfig = not_yet_class("TrainerRuntimeConfig")


class StrategyFactory:
    """Makes strategies."""

    @staticmethod
    def create_sync_strategy():
        """All trainers keep step."""
        return SyncStrategy()

    @staticmethod
    def create_half_async_strategy():
        """Trainers keep step among themselves."""
        return HalfAsyncStrategy()

    @staticmethod
    def create_async_strategy():
        """Nobody waits."""
        return AsyncStrategy()

    @staticmethod
    def create_geo_strategy(update_frequency=100):
        """Trainers send differences now and then."""
        return GeoStrategy(update_frequency)
