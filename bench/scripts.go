package main

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; nothing is secured by it
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/redis/rueidis"
)

// scripts are redisstore's own, read from its folder, with the files that they include: the floor
// must not fall behind when one of them changes.
type scripts struct{ acquire, renew, release script }

type script struct{ text, sha string }

func loadScripts() (scripts, error) {
	folder, err := scriptFolder()
	if err != nil {
		return scripts{}, err
	}
	read := func(name string) string {
		text, readErr := os.ReadFile(filepath.Join(folder, name))
		err = errors.Join(err, readErr)
		return string(text)
	}
	tell, lost := read("tell.lua"), read("lost.lua")
	whole := func(name string) script {
		text := strings.Replace(read(name), "-- include tell.lua\n", tell, 1)
		text = strings.Replace(text, "-- include lost.lua\n", lost, 1)
		sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
		return script{text, hex.EncodeToString(sum[:])}
	}
	s := scripts{whole("acquire.lua"), whole("renew.lua"), whole("release.lua")}
	return s, err
}

// scriptFolder looks from the working folder, which is this module's
// with `go run .`, and from where this file was compiled.
func scriptFolder() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	for _, module := range []string{".", filepath.Dir(file)} {
		folder := filepath.Join(module, "..", "renewer", "redisstore")
		if _, err := os.Stat(filepath.Join(folder, "acquire.lua")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("the scripts in renewer/redisstore are not found: run this in the " +
		"folder bench of a checkout")
}

// teach makes the server know the scripts by their names.
func (s scripts) teach(ctx context.Context, client rueidis.Client) error {
	for _, one := range []script{s.acquire, s.renew, s.release} {
		sha, err := client.Do(ctx, client.B().ScriptLoad().Script(one.text).Build()).ToString()
		if err != nil {
			return fmt.Errorf("SCRIPT LOAD: %w", err)
		}
		if sha != one.sha {
			return fmt.Errorf("SCRIPT LOAD: the server calls %s what we call %s", sha, one.sha)
		}
	}
	return nil
}
