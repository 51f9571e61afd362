package deployment

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// parameters are what a URL may say behind the question mark besides db,
// cluster and sentinel_master: those of rueidis' own URLs that locks can do
// with. One returns nil for a value that it does not know.
var parameters = map[string]func(value string) func(*rueidis.ClientOption){
	"protocol": func(value string) func(*rueidis.ClientOption) {
		if value != "2" && value != "3" {
			return nil
		}
		return func(o *rueidis.ClientOption) { o.AlwaysRESP2 = value == "2" }
	},
	"dial_timeout": duration(func(o *rueidis.ClientOption, d time.Duration) {
		o.Dialer.Timeout = d
	}),
	"write_timeout": duration(func(o *rueidis.ClientOption, d time.Duration) {
		o.ConnWriteTimeout = d
	}),
	"client_name": func(value string) func(*rueidis.ClientOption) {
		return func(o *rueidis.ClientOption) { o.ClientName = value }
	},
	"client_cache": switchedOff(func(o *rueidis.ClientOption) { o.DisableCache = true }),
	"max_retries":  switchedOff(func(o *rueidis.ClientOption) { o.DisableRetry = true }),
}

func duration(
	set func(*rueidis.ClientOption, time.Duration),
) func(value string) func(*rueidis.ClientOption) {
	return func(value string) func(*rueidis.ClientOption) {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return nil
		}
		return func(o *rueidis.ClientOption) { set(o, d) }
	}
}

// switchedOff is of a parameter of which rueidis knows the value 0 only.
func switchedOff(
	set func(*rueidis.ClientOption),
) func(value string) func(*rueidis.ClientOption) {
	return func(value string) func(*rueidis.ClientOption) {
		if value != "0" {
			return nil
		}
		return set
	}
}

// parseQuery takes what is behind the question mark. What variables say, too,
// becomes theirs, under a name of the URL's.
func (v *variables) parseQuery(query string, db *string, a *address) {
	values, err := url.ParseQuery(query)
	wellFormed := err == nil
	for name, all := range values {
		variable := map[string]string{
			"cluster": clusterVariable, "sentinel_master": masterVariable,
		}[name]
		switch {
		case len(all) != 1 || all[0] == "":
			wellFormed = false
		case name == "db" && *db == "":
			*db = all[0]
		case parameters[name] != nil:
			set := parameters[name](all[0])
			if set == nil {
				v.fault(URLVariable, "%s has a value that it can't have: protocol is 2 or 3, "+
					"client_cache and max_retries 0, and a time-out a duration such as 2s", name)
				continue
			}
			a.more = append(a.more, set)
		case name == "skip_verify":
			v.fault(URLVariable, "skip_verify: who is in between could pass for the server; set "+
				"%s, or Deployment.Option.TLSConfig before redisstore.Open", authorityVariable)
		case variable == "":
			wellFormed = false
		case v.values[variable] != "":
			v.fault(variable, "%s has %s, too; keep one of them", v.name(URLVariable), name)
		default:
			v.values[variable], v.called[variable] = all[0], v.name(URLVariable)+": "+name
		}
	}
	if !wellFormed {
		v.fault(URLVariable, "may have nothing behind the hosts but /number or ?db=number, "+
			"cluster=true or sentinel_master=name, %s, each once; for other options set "+
			"Deployment.Option before redisstore.Open, such as by "+
			"redisstore.Deployment{Option: rueidis.MustParseURL(url)}", strings.Join(
			slices.Sorted(maps.Keys(parameters)), ", "))
	}
}
