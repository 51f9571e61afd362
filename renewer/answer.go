package renewer

import (
	"errors"
	"fmt"
)

// answerTo gives the answer to item i of n, if the store has kept its contract and given n of them.
func answerTo[A Answer | Grant](answers []A, i, n int, broken func(error) A) A {
	if len(answers) == n {
		return answers[i]
	}
	return broken(fmt.Errorf("the store gave %d answers to %d questions", len(answers), n))
}

func brokenAnswer(err error) Answer { return Answer{Err: err} }

func brokenGrant(err error) Grant { return Grant{Err: err} }

func orUnexplained(err error) error {
	if err == nil {
		return errors.New("the store gave no reason")
	}
	return err
}
