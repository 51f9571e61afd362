package httpguard

// types is the address where the types are explained, as RFC 9457 asks for.
const types = "https://pkg.go.dev/github.com/lockbeat/lockbeat/lockmw/httpmw#"

// The types of problem documents, which the docs of package httpmw explain.
const (
	TypeBusy        = types + "busy"
	TypeUnavailable = types + "unavailable"
	TypeTimeout     = types + "timeout"
	TypeLost        = types + "lost"
	TypeReplaced    = types + "replaced"
	TypeBadRequest  = types + "bad-request"
	TypeTooMany     = types + "too-many"
	TypeLimit       = types + "limit"
	TypeReused      = types + "reused"
	TypeNotKept     = types + "not-kept"
	TypeQuota       = types + "quota"
	TypeUnknown     = types + "unknown"
)

// NothingDone ends the detail of a document.
const NothingDone = " The request has not been carried out."
