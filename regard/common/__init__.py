"""What every other room stands on: errors, settings, files that are read and written, seals, the axis letters."""
