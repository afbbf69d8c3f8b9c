"""Files of records; later versions of Fluid dropped them too."""

from ._not_yet import not_yet_function

WHY = "read the samples with a Python reader instead"

convert_reader_to_recordio_file = not_yet_function("convert_reader_to_recordio_file", WHY)
convert_reader_to_recordio_files = not_yet_function("convert_reader_to_recordio_files", WHY)
