"""Where rows and definitions are kept, and how they come in and go out as files."""
