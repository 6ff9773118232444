"""A page in the browser that follows runs, studies and federations while they train."""
