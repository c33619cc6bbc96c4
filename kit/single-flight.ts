/**
 * Shares one run among the calls that arrive while it is in flight; the next call after it starts a new run. The arguments of the
 * call that started the run are used.
 */
export const singleFlight = <Arguments extends unknown[], Result>(
  run: (...given: Arguments) => Promise<Result>,
): ((...given: Arguments) => Promise<Result>) => {
  let running: Promise<Result> | undefined;
  return (...given) => {
    running ??= run(...given).finally(() => {
      running = undefined;
    });
    return running;
  };
};
