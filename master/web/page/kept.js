// What this browser keeps of what somebody chose.

/**
 * The word that is kept of a choice, null where there is none, or none of these.
 * @param {string} key
 * @param {string[]} words
 */
export function kept(key, words) {
  try {
    const word = localStorage.getItem(`topo-${key}`);
    return word !== null && words.includes(word) ? word : null;
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string} word
 */
export function keep(key, word) {
  try {
    localStorage.setItem(`topo-${key}`, word);
  } catch {
    // A browser that keeps nothing shows the page all the same.
  }
}
