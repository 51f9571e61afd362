package deployment

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// option makes the client's options of the variables, and notes the faults. It reports whether they
// say that there is a cluster.
func (v *variables) option() (option rueidis.ClientOption, isCluster bool) {
	a := v.parseURL(v.values[URLVariable])
	master := v.values[masterVariable]
	option.InitAddress, option.SelectDB = a.hosts, a.db
	option.Username, option.Password = a.user, a.password
	if password := v.readPassword(passwordVariable); password != "" {
		if a.password != "" {
			v.fault(passwordVariable, "%s has a password too; keep one of them",
				v.name(URLVariable))
		}
		option.Password = password
	}
	option.TLSConfig = v.tls(a.tls)
	cluster := v.cluster()
	v.sentinel(master, &option)
	switch {
	case master != "" && cluster == yes:
		v.fault(clusterVariable, "is true and %s is set; a cluster has no Sentinels",
			v.name(masterVariable))
	case cluster == yes && a.db != 0:
		v.fault(URLVariable, "names database %d; a cluster has none but 0", a.db)
	case master == "" && cluster != yes && len(a.hosts) > 1:
		v.fault(URLVariable, "has several hosts; set %s to true, or %s to the primary's name, or "+
			"put ?cluster=true or ?sentinel_master=name behind the hosts",
			clusterVariable, masterVariable)
	}
	option.ForceSingleClient = cluster == no && master == ""
	return option, cluster == yes
}

// answer is what a variable says that may be left out.
type answer uint8

const (
	unsaid answer = iota
	yes
	no
)

func (v *variables) cluster() answer {
	text := v.values[clusterVariable]
	if text == "" {
		return unsaid
	}
	is, err := strconv.ParseBool(text)
	if err != nil {
		v.fault(clusterVariable, "is neither true nor false")
	}
	if is {
		return yes
	}
	return no
}

// sentinel sets how Sentinels are asked.
func (v *variables) sentinel(master string, option *rueidis.ClientOption) {
	if master == "" {
		for _, name := range []string{sentinelUserVariable, sentinelPasswordVariable} {
			if v.values[name] != "" {
				v.fault(name, "is of no use without %s", masterVariable)
			}
		}
		return
	}
	option.Sentinel.MasterSet = master
	option.Sentinel.Username = v.values[sentinelUserVariable]
	option.Sentinel.Password = v.readPassword(sentinelPasswordVariable)
	option.Sentinel.TLSConfig = option.TLSConfig
}

// tls makes the configuration of TLS; nil without.
func (v *variables) tls(wanted bool) *tls.Config {
	if !wanted {
		for _, name := range []string{
			authorityVariable, certVariable, keyVariable, serverNameVariable,
		} {
			if v.values[name] != "" {
				v.fault(name, "is of no use unless %s begins with rediss://", v.name(URLVariable))
			}
		}
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: v.values[serverNameVariable]}
	if path := v.values[authorityVariable]; path != "" {
		text, err := readPEM(path)
		config.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			v.fault(authorityVariable, "%v", err)
		case !config.RootCAs.AppendCertsFromPEM(text):
			v.fault(authorityVariable, "%s: has no certificate in PEM form", path)
		}
	}
	cert, key := v.values[certVariable], v.values[keyVariable]
	switch {
	case cert == "" && key == "":
	case cert == "":
		v.fault(certVariable, "is missing beside %s", keyVariable)
	case key == "":
		v.fault(keyVariable, "is missing beside %s", certVariable)
	default:
		pair, err := readPair(cert, key)
		if err != nil {
			v.fault(certVariable, "%v", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}

// readPair reads a certificate and its key.
func readPair(cert, key string) (tls.Certificate, error) {
	certText, err1 := readPEM(cert)
	keyText, err2 := readPEM(key)
	if err := cmp.Or(err1, err2); err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(certText, keyText)
	if err != nil {
		err = fmt.Errorf("%s with %s: %w", cert, key, err)
	}
	return pair, err
}
