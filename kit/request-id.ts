const acceptable = /^[A-Za-z0-9._-]{1,64}$/;

/** Reports whether a text is a request id: 1 to 64 of `[A-Za-z0-9._-]`. */
export const isRequestId = (text: string | undefined): text is string =>
  text !== undefined && acceptable.test(text);
