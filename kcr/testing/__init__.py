"""What users import in tests of their controllers."""
