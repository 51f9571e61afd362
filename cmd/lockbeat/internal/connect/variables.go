package connect

// The variables. They have the same names in the environment and in a file.
const (
	// ConfigVariable names the file, unless --config does.
	ConfigVariable = "LOCKBEAT_CONFIG"

	urlVariable              = "LOCKBEAT_URL"
	passwordVariable         = "LOCKBEAT_PASSWORD_FILE"
	clusterVariable          = "LOCKBEAT_CLUSTER"
	masterVariable           = "LOCKBEAT_SENTINEL_MASTER"
	sentinelUserVariable     = "LOCKBEAT_SENTINEL_USER"
	sentinelPasswordVariable = "LOCKBEAT_SENTINEL_PASSWORD_FILE"
	authorityVariable        = "LOCKBEAT_TLS_CA"
	certVariable             = "LOCKBEAT_TLS_CERT"
	keyVariable              = "LOCKBEAT_TLS_KEY"
	serverNameVariable       = "LOCKBEAT_TLS_SERVER_NAME"
	prefixVariable           = "LOCKBEAT_PREFIX"
)

// defaultURL is where Redis is if no variable says so.
const defaultURL = "redis://127.0.0.1:6379"

// Variable is one that a user can set.
type Variable struct{ Name, What string }

// Variables returns all variables in the order in which a user reads of them.
func Variables() []Variable {
	return []Variable{
		{urlVariable, "redis://user:password@host:6379/db; rediss:// for TLS; hosts with commas " +
			"between\n" + indent + "(default " + defaultURL + ")"},
		{passwordVariable, "a file with the password"},
		{clusterVariable, "true: the hosts are nodes of a cluster; false: they are none\n" +
			indent + "(default: the server is asked)"},
		{masterVariable, "the hosts are Sentinels, which know the primary by this name"},
		{sentinelUserVariable, "the user of the Sentinels, if they ask for one"},
		{sentinelPasswordVariable, "a file with the password of the Sentinels"},
		{authorityVariable, "a file with the certificates to trust (default: the system's)"},
		{certVariable, "a file with the client's certificate"},
		{keyVariable, "a file with its key"},
		{serverNameVariable, "the name in the server's certificate (default: the host)"},
		{prefixVariable, "what the keys begin with (default lockbeat:)"},
		{ConfigVariable, "a file with the variables above"},
	}
}

// indent is below the text of a variable in the help.
const indent = "                                   "
