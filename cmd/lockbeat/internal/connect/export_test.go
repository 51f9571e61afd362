package connect

// ParseURL returns the hosts and the password of a URL, and the faults found.
func ParseURL(text string) (hosts []string, user, password string, db int, faults []string) {
	v := &variables{values: make(map[string]string)}
	a := v.parseURL(text, "6379")
	return a.hosts, a.user, a.password, a.db, v.faults
}

// HasPassword is whether a URL may have one.
var HasPassword = hasPassword
