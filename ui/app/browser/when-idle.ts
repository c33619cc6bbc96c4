/** Runs `work` when the browser is idle, after 100 ms at the latest. Returns the function that cancels it. */
export const whenIdle = (work: () => void): (() => void) => {
  if (!("requestIdleCallback" in window)) {
    const timer = setTimeout(work, 16);
    return () => clearTimeout(timer);
  }
  const callback = requestIdleCallback(work, { timeout: 100 });
  return () => cancelIdleCallback(callback);
};

/**
 * Starts to time a change of the document. The returned function calls `done` after the next frame, with the milliseconds that the
 * change and its frame took; what it returns cancels that.
 */
export const timeFrame = (): ((done: (ms: number) => void) => () => void) => {
  const startedAt = performance.now();
  return (done) => {
    const workMs = performance.now() - startedAt;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const frame = requestAnimationFrame(() => {
      const drawnFrom = performance.now();
      timer = setTimeout(() => done(workMs + performance.now() - drawnFrom));
    });
    return () => {
      cancelAnimationFrame(frame);
      clearTimeout(timer);
    };
  };
};
