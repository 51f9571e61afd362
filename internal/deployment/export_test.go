package deployment

// ParseURL returns the hosts and the password of a URL, and the faults found.
func ParseURL(text string) (hosts []string, user, password string, db int, faults []string) {
	v := newVariables()
	a := v.parseURL(text)
	return a.hosts, a.user, a.password, a.db, v.faults
}
