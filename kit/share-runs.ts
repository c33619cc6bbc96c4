/**
 * Calls that come while a run is under way share its outcome; the next one after it runs anew. So what anybody may ask for costs no
 * more for being asked often. The first caller's arguments count.
 */
export const shareRuns = <Arguments extends unknown[], Result>(
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
