/** Reads and stores texts by name. Where storage is denied there is none, and a full one drops what it should store. */
const createTexts = (storage: () => Storage) => ({
  /** Returns the stored text; null without one. */
  read: (name: string): string | null => {
    try {
      return storage().getItem(name);
    } catch {
      return null;
    }
  },
  store: (name: string, text: string): void => {
    try {
      storage().setItem(name, text);
    } catch {
      // The text then lasts as long as the page.
    }
  },
});

/** The texts that this browser stores for the next visit. */
export const { read: readStoredText, store: storeText } = createTexts(() => localStorage);

/** The texts that this tab stores until it is closed. */
export const { read: readTabText, store: storeTabText } = createTexts(() => sessionStorage);

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
