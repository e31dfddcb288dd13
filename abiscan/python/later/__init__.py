"""What certainly fails after the import, when what was imported is used."""
