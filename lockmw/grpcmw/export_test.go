package grpcmw

// ErrSilence is the cause with which the context of a silent client's stream ends.
var ErrSilence = errSilence
