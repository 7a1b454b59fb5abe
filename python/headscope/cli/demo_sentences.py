"""Sentences of different lengths for the demo."""

SENTENCES = (
    "The kettle is on.",
    "Rain is expected over the hills tonight.",
    "She sold the old bicycle to a neighbour and walked home smiling.",
    "Why do cats sleep in boxes?",
    "The committee will publish the minutes of its spring meeting by the end of next week.",
    "Bread needs flour, water, salt and time.",
    "A lighthouse keeper counts the ships that pass, and writes each name into a book that nobody reads.",
    "The train was late again.",
    "If the battery is stored for more than three months, charge it to half its capacity and keep it in a dry place.",
    "Two violins and a cello tuned up while the hall slowly filled with people shaking the snow from their coats.",
    "Turn left at the bakery.",
    "Researchers compared the growth of the seedlings under red, blue and white light over a period of forty days, and "
    "found that the mixture mattered less than the number of hours of darkness between the sessions.",
    "He forgot his umbrella.",
    "The recipe says to wait until the onions are golden, which takes far longer than the five minutes it promises.",
    "Our library has lent more books this year than in any year since it opened, although fewer people come through "
    "its doors: most readers take several volumes at once, and many return them by post.",
    "Glaciers move.",
)
