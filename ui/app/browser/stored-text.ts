/** Returns the text that this browser stores under a name; null without one, and where storage is denied. */
export const readStoredText = (name: string): string | null => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};

/** Stores a text for the next visit, unless storage is denied or full. */
export const storeText = (name: string, text: string): void => {
  try {
    localStorage.setItem(name, text);
  } catch {
    // The choice then lasts as long as the page.
  }
};
