interface Turn<Result> {
  run: Promise<Result>;
  /** The run after this one, once a call waits for it. */
  next: Promise<Result> | null;
}

/**
 * Shares runs among the calls of a key, and returns no result of a run that started before the call: calls that arrive while a run is in
 * flight wait for its end and share the next one, even if the first fails. So no call waits for more than two runs.
 */
export const shareNextRun = <Given, Result>(
  run: (given: Given) => Promise<Result>,
  keyOf: (given: Given) => string,
): ((given: Given) => Promise<Result>) => {
  const turns = new Map<string, Turn<Result>>();
  const start = (key: string, given: Given): Promise<Result> => {
    const turn: Turn<Result> = { run: run(given), next: null };
    turns.set(key, turn);
    const end = () => {
      if (turn.next === null) turns.delete(key);
    };
    turn.run.then(end, end);
    return turn.run;
  };
  return (given) => {
    const key = keyOf(given);
    const turn = turns.get(key);
    if (turn === undefined) return start(key, given);
    const startNext = () => start(key, given);
    turn.next ??= turn.run.then(startNext, startNext);
    return turn.next;
  };
};
