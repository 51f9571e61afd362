package lockmw

// Split is what tests see of split.
var Split = split
