"""What is asked, what is explained and what comes out: plain values, without torch."""
