"""The device matrix that three vendors print alike."""
