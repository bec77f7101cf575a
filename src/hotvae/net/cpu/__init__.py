"""The attention decoder's layers written out for a CPU; see ADR 0015."""
