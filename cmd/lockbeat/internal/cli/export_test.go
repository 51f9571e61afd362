package cli

// Execute is Main, until a context ends.
var Execute = execute
