/** Returns the text that this browser stores under a name; null without one, and where storage is denied. */
export const readStoredText = (name: string): string | null => {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
};

/** Returns the text that this tab stores under a name, until it is closed; null without one, and where storage is denied. */
export const readTabText = (name: string): string | null => {
  try {
    return sessionStorage.getItem(name);
  } catch {
    return null;
  }
};

/** Stores a text for this tab, unless storage is denied or full. */
export const storeTabText = (name: string, text: string): void => {
  try {
    sessionStorage.setItem(name, text);
  } catch {
    // A reload then starts anew.
  }
};

/** Makes this tab's storage a person's, or nobody's (""): deletes what anybody else has left in it. */
export const claimTab = (person: string): void => {
  if (readTabText("person") === person) return;
  try {
    sessionStorage.clear();
  } catch {
    // Then it is empty.
  }
  storeTabText("person", person);
};

/** Stores a text for the next visit, unless storage is denied or full. */
export const storeText = (name: string, text: string): void => {
  try {
    localStorage.setItem(name, text);
  } catch {
    // The choice then lasts as long as the page.
  }
};
