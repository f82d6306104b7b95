"""Current models and settings: profiles (TOML) and the settings of this installation."""
