"""Which models and settings are in force: profiles (TOML) and this installation's settings."""
