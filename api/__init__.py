"""The public API: what `import loupe` offers to scripts, notebooks, plugins and examples."""
