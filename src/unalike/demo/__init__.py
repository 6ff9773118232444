"""What `unalike demo` trains, shows and draws."""
