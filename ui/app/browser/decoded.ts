/** Returns a part of an address without its percent encoding; as it is where that is broken. */
export const decoded = (part: string): string => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
};
