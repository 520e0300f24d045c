package serve

import (
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

const (
	method          = "pbkdf2-sha256"
	iterations      = 600_000
	leastIterations = 100_000
	mostIterations  = 10_000_000
	leastToken      = 20 // characters
)

// user is an identified user.
type user struct {
	name    string
	operate bool // they may change things
}

// account is a user with a password.
type account struct {
	user
	iterations int
	salt, hash []byte
}

// userName matches names that are safe in an audit and a log.
var userName = regexp.MustCompile(`^[A-Za-z0-9._@+-]{1,64}$`)

var roles = map[string]bool{"view": false, "operate": true}

// Hash returns a line for an auth file.
func Hash(name, password, role string) (string, error) {
	return hashed(name, password, role, iterations)
}

func hashed(name, password, role string, iterations int) (string, error) {
	if !userName.MatchString(name) {
		return "", fmt.Errorf("%q is not a user name: use letters, digits and . _ @ + -", name)
	}
	if _, known := roles[role]; !known {
		return "", fmt.Errorf("%q is not a role: use view or operate", role)
	}
	if password == "" {
		return "", errors.New("the password is empty")
	}
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // it never fails
	hash, err := pbkdf2.Key(sha256.New, password, salt, iterations, sha256.Size)
	if err != nil {
		return "", err
	}
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("%s:%s$%d$%s$%s:%s", name, method, iterations, b64(salt), b64(hash), role), nil
}

// readAccounts reads an auth file. Errors tell the line's number, and nothing of its content.
func readAccounts(name string) (map[string]account, error) {
	all, err := lines(name)
	if err != nil {
		return nil, err
	}
	accounts := map[string]account{}
	for i, line := range all {
		a, ok := readAccount(line)
		if !ok {
			return nil, fmt.Errorf("--auth-file %s: entry %d is not USER:HASH:ROLE as \"berth serve hash-password\" prints it", name, i+1)
		}
		accounts[a.name] = a
	}
	if len(accounts) == 0 {
		return nil, fmt.Errorf("--auth-file %s: it has no users", name)
	}
	return accounts, nil
}

func readAccount(line string) (a account, ok bool) {
	parts := strings.Split(line, ":")
	if len(parts) != 3 || !userName.MatchString(parts[0]) {
		return a, false
	}
	operate, known := roles[parts[2]]
	fields := strings.Split(parts[1], "$")
	if !known || len(fields) != 4 || fields[0] != method {
		return a, false
	}
	n, err := strconv.Atoi(fields[1])
	salt, errSalt := base64.RawStdEncoding.DecodeString(fields[2])
	hash, errHash := base64.RawStdEncoding.DecodeString(fields[3])
	if err != nil || errSalt != nil || errHash != nil || n < leastIterations || n > mostIterations || len(salt) < 8 || len(hash) != sha256.Size {
		return a, false
	}
	return account{user{parts[0], operate}, n, salt, hash}, true
}

// nobody is the account that is checked for unknown users, so that the time of an answer does
// not tell which users exist.
var nobody = account{iterations: iterations, salt: []byte("nobody at all"), hash: make([]byte, sha256.Size)}

// knows reports whether it is the account's password.
func (a *account) knows(password string) bool {
	hash, err := pbkdf2.Key(sha256.New, password, a.salt, a.iterations, sha256.Size)
	return err == nil && subtle.ConstantTimeCompare(hash, a.hash) == 1
}

// bearer is a program with a token, of which only the hash is kept.
type bearer struct {
	user
	sum [sha256.Size]byte
}

// readTokens reads a token file: lines of NAME:TOKEN:ROLE.
func readTokens(name string) (tokens []bearer, err error) {
	all, err := lines(name)
	if err != nil {
		return nil, err
	}
	for i, line := range all {
		parts := strings.Split(line, ":")
		if len(parts) != 3 || !userName.MatchString(parts[0]) {
			return nil, fmt.Errorf("--token-file %s: entry %d is not NAME:TOKEN:ROLE", name, i+1)
		}
		operate, known := roles[parts[2]]
		if !known {
			return nil, fmt.Errorf("--token-file %s: entry %d has no role: use view or operate", name, i+1)
		}
		if len(parts[1]) < leastToken {
			return nil, fmt.Errorf("--token-file %s: the token of entry %d is shorter than %d characters", name, i+1, leastToken)
		}
		tokens = append(tokens, bearer{user{parts[0], operate}, sha256.Sum256([]byte(parts[1]))})
	}
	if len(tokens) == 0 {
		return nil, fmt.Errorf("--token-file %s: it has no token", name)
	}
	return tokens, nil
}
