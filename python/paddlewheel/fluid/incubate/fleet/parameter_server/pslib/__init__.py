"""The fleet of another parameter server."""

from ...._not_yet_fleet import NotYetFleet

WHY = "use the fleet of paddle.fluid.incubate.fleet.parameter_server.distribute_transpiler"

fleet = NotYetFleet("fleet", WHY)
