/** What was kept in this browser under a name; null without it, and where storage is denied. */
export const readStored = (name: string): string | null => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};

/** Keeps a text for the next visit. Where storage is denied or full, it lasts as long as the page. */
export const storeText = (name: string, text: string): void => {
  try {
    localStorage.setItem(name, text);
  } catch {
    // As said above.
  }
};
