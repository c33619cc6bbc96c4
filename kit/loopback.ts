/** Whether a URL's `hostname` is this machine's loopback, by address or as `localhost`: nobody is on the way there. */
export const isLoopbackHost = (hostname: string): boolean => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(hostname);
