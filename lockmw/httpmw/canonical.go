package httpmw

import (
	"errors"
	"strconv"

	"github.com/google/uuid"
)

// canonicalInt returns a whole number as strconv writes it.
func canonicalInt(value string) (string, error) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return strconv.FormatInt(n, 10), nil
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		return "", errors.New("is no whole number of 64 bits")
	}
	return strconv.FormatUint(n, 10), nil
}

// canonicalUUID returns a UUID in lower case with hyphens.
func canonicalUUID(value string) (string, error) {
	id, err := uuid.Parse(value)
	if err != nil {
		return "", errors.New("is no UUID")
	}
	return id.String(), nil
}
