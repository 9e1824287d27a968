"""APIs that a row cannot express, one file per family, behind the same lookup as the rows."""
