package deployment

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"github.com/redis/rueidis"
)

// option makes the client's options of the variables, and notes the faults. It
// reports whether they say that there is a cluster.
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
	credentials{
		file: v.values[passwordVariable], sentinelFile: v.values[sentinelPasswordVariable],
		variable: v.name(passwordVariable), sentinelVariable: v.name(sentinelPasswordVariable),
	}.byFile(&option)
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
	for _, set := range a.more {
		set(&option)
	}
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
		text, info, err := readOpened(path, mostPEM)
		config.RootCAs = x509.NewCertPool()
		switch {
		case err != nil:
			v.fileFault(authorityVariable, path, err)
		case !config.RootCAs.AppendCertsFromPEM([]byte(text)):
			v.fault(authorityVariable, "%s: has no certificate in PEM form", path)
		default:
			v.warnOf(authorityVariable, path, info, false)
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
		v.pair(cert, key, config)
	}
	return config
}

// pair has the client show a certificate. It is read again for each connection,
// as those that are renewed have short lives.
func (v *variables) pair(cert, key string, config *tls.Config) {
	certInfo, keyInfo, _, err := readPair(cert, key)
	if err != nil {
		wrong := cert
		if _, none := os.Stat(cert); none == nil {
			wrong = key
		}
		v.fileFault(certVariable, wrong, err)
		return
	}
	v.warnOf(certVariable, cert, certInfo, false)
	v.warnOf(keyVariable, key, keyInfo, true)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		_, _, pair, err := readPair(cert, key)
		if err != nil {
			return nil, wrong(v.name(certVariable) + ": " + err.Error())
		}
		return pair, nil
	}
}

// readPair reads a certificate and its key.
func readPair(cert, key string) (certInfo, keyInfo fs.FileInfo, _ *tls.Certificate, _ error) {
	certText, certInfo, err1 := readOpened(cert, mostPEM)
	keyText, keyInfo, err2 := readOpened(key, mostPEM)
	if err := cmp.Or(err1, err2); err != nil {
		return nil, nil, nil, err
	}
	pair, err := tls.X509KeyPair([]byte(certText), []byte(keyText))
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s with %s: %w", cert, key, err)
	}
	return certInfo, keyInfo, &pair, nil
}
