package berth

import (
	"context"
	"fmt"
	"unicode"
	"unicode/utf8"
)

func validContext(ctx context.Context) error {
	if ctx == nil {
		return &InvalidError{"context", "it is nil"}
	}
	return nil
}

func validLimit(limit, least int) error {
	if limit < least || limit > MaxLimit {
		return &InvalidError{"limit", fmt.Sprintf("%d is outside %d to %d", limit, least, MaxLimit)}
	}
	return nil
}

// validName refuses names that would be unsafe in a key, a channel or on a
// screen. Braces would change the hash tag: "{NAME}" must end where NAME ends,
// or the semaphore's keys fall into different slots of a Redis Cluster.
func validName(name string) error {
	if name == "" {
		return &InvalidError{"name", "it is empty"}
	}
	for _, r := range name {
		if r == '{' || r == '}' {
			return &InvalidError{"name", "braces are reserved for the Redis Cluster hash tag"}
		}
	}
	return validText("name", name, MaxName)
}

// validText bounds what is stored for people to read: valid UTF-8 that is
// neither huge nor able to rearrange a terminal.
func validText(what, s string, most int) error {
	if len(s) > most {
		return &InvalidError{what, fmt.Sprintf("%d bytes are more than %d", len(s), most)}
	}
	if !utf8.ValidString(s) {
		return &InvalidError{what, "it is not valid UTF-8"}
	}
	blank := s != ""
	for _, r := range s {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return &InvalidError{what, fmt.Sprintf("it contains the control character %U", r)}
		}
		blank = blank && unicode.IsSpace(r)
	}
	if blank {
		return &InvalidError{what, "it is blank"}
	}
	return nil
}

func validPrefix(prefix string) error {
	if prefix == "" || len(prefix) > 64 {
		return &InvalidError{"prefix", fmt.Sprintf("%d bytes are outside 1 to 64", len(prefix))}
	}
	for _, r := range prefix {
		if r > unicode.MaxASCII || !(unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' || r == ':' || r == '-') {
			return &InvalidError{"prefix", fmt.Sprintf("%q is not a letter, a digit or one of . _ : -", r)}
		}
	}
	return nil
}
