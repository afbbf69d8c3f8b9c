"""The older form of metrics; `fluid.metrics` has them all."""

from ._not_yet import not_yet_class

WHY = "use the class of the same name in fluid.metrics"

Evaluator = not_yet_class("Evaluator", WHY)
Accuracy = not_yet_class("Accuracy", WHY)
ChunkEvaluator = not_yet_class("ChunkEvaluator", WHY)
EditDistance = not_yet_class("EditDistance", WHY)
DetectionMAP = not_yet_class("DetectionMAP", WHY)
