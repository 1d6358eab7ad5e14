"""The demonstrations that ship with the package: translation and captioning, trained, scored and drawn."""
