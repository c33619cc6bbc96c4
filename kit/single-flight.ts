/**
 * Shares one run among the calls of a key that arrive while it is in flight; the next call after it starts a new run. The arguments of
 * the call that started the run are used.
 */
export const singleFlight = <Arguments extends unknown[], Result>(
  run: (...given: Arguments) => Promise<Result>,
  keyOf: (...given: Arguments) => string = () => "",
): ((...given: Arguments) => Promise<Result>) => {
  const running = new Map<string, Promise<Result>>();
  return (...given) => {
    const key = keyOf(...given);
    const shared = running.get(key) ?? run(...given).finally(() => running.delete(key));
    running.set(key, shared);
    return shared;
  };
};
